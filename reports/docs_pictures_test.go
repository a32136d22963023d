package reports

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/internal/browser"
)

// picturesEnv asks for the pictures of the documents, which are made of a recorded run.
const picturesEnv = "LOCKDRILL_PICTURES"

func TestPicturesOfTheDocuments(t *testing.T) {
	if os.Getenv(picturesEnv) == "" {
		t.Skipf("%s=1 takes docs/report-light.png and docs/report-dark.png anew: make pictures", picturesEnv)
	}
	b := browser.Start(t)
	at := served(t, map[string]string{"fail": htmlOf(t, recorded(t, "fail"))})
	for name, dark := range map[string]bool{"light": false, "dark": true} {
		p := b.Open(t, at+"fail", browser.View{Width: 1280, Height: 1860, Dark: dark})
		if err := os.WriteFile("../docs/report-"+name+".png", ofFewColours(t, p.Picture(t)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// ofFewColours is a picture with a palette: a quarter of the bytes.
func ofFewColours(t *testing.T, picture []byte) []byte {
	t.Helper()
	seen, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	full := image.NewRGBA(seen.Bounds())
	draw.Draw(full, full.Rect, seen, full.Rect.Min, draw.Src)
	few := image.NewPaletted(full.Rect, paletteOf(full))
	draw.Draw(few, few.Rect, full, few.Rect.Min, draw.Src)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, few); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// paletteOf has the most frequent colours of a picture, as far apart as lets every other one have one nearby: by frequency alone a word
// in green would be grey.
func paletteOf(m *image.RGBA) color.Palette {
	count := map[color.RGBA]int{}
	for i := 0; i < len(m.Pix); i += 4 {
		count[color.RGBA{m.Pix[i], m.Pix[i+1], m.Pix[i+2], 255}]++
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	for apart := 1; ; apart++ {
		var p color.Palette
		for _, c := range all {
			if !slices.ContainsFunc(p, func(o color.Color) bool { return distance(o.(color.RGBA), c) < apart }) {
				p = append(p, c)
			}
		}
		if len(p) <= 256 {
			return p
		}
	}
}

func distance(a, b color.RGBA) int {
	return int(max(max(a.R, b.R)-min(a.R, b.R), max(a.G, b.G)-min(a.G, b.G), max(a.B, b.B)-min(a.B, b.B)))
}
