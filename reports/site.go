package reports

import (
	"io"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// What a server gives are pages of the same kind as the reports, with links to its other pages.

type (
	// Link is a link at the top of a page.
	Link = doc.Link
	// Form changes something at the server.
	Form = doc.Form
	// Field of a form.
	Field = doc.Field
)

// VerdictCell is the verdict of a run as tables have it; "" = it has none.
func VerdictCell(name string) Cell {
	if name == "" {
		return Cell{Text: "NOT READ", Class: "fail"}
	}
	word, ink := runWord(name)
	return Cell{Text: word, Class: classOf(ink)}
}

// TimeCell is a start time to the minute.
func TimeCell(started string) Cell { return Cell{Text: startOf(started), Num: true} }

// SitePolicy is the policy for browsers of the pages that a server gives, with script or without.
func SitePolicy(script bool) string { return doc.Policy(timeline.Styles(), script) }

// SiteRun is the report of a run as a server gives it.
func SiteRun(w io.Writer, r Run, site []Link) error {
	p, err := pageOf(r, mostEvents)
	if err != nil {
		return err
	}
	p.Site = site
	return p.Write(w)
}

// SiteArchive is the page of the runs of experiments as a server gives it: what p has stands above. link gives the address of a run.
func SiteArchive(w io.Writer, a *compare.Archive, link func(folder string) string, p *Page) error {
	d := p.document()
	d.Sections = append(d.Sections, Archive(a, link).Sections...)
	return Write(w, d)
}
