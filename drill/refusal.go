package drill

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// guardName is what refusals, plans and the documents call a guard: docs/oracles.md has what makes each of them refuse.
type guardName = string

const (
	killSwitchGuardName  guardName = "kill switch"
	calendarGuardName    guardName = "calendar"
	machineGuardName     guardName = "machine"
	storeGuardName       guardName = "store"
	confirmGuardName     guardName = "confirm"
	namespaceGuardName   guardName = "namespace"
	permissionsGuardName guardName = "permissions"
	environmentGuardName guardName = "environment"
	podsGuardName        guardName = "pods"
	processesGuardName   guardName = "processes"
	rightsGuardName      guardName = "rights"
	routeGuardName       guardName = "route"
	tapGuardName         guardName = "lockdrill proxy"
	apiProxyGuardName    guardName = "API proxy"
	sourcesGuardName     guardName = "sources"
	blockGuardName       guardName = "blocked_by"
	targetGuardName      guardName = "target"
	folderGuardName      guardName = "folder"
	planGuardName        guardName = "plan"
)

// abortGuardName is of a line among the guards that refuses nothing.
const abortGuardName = "abort_when"

// Refusal is every guard that is not met.
type Refusal struct {
	name   string
	guards []Guard
}

func (r *Refusal) Error() string {
	text := r.name + ": refused: nothing was touched: "
	between := ""
	if len(r.guards) > 1 {
		text += fmt.Sprintf("%d guards are not met", len(r.guards))
		between = "\n  "
	}
	for _, g := range r.guards {
		text += between + g.Name + ": " + g.Says
		if g.Paste != "" {
			text += "\n" + strings.TrimRight(g.Paste, "\n")
		}
	}
	return text
}

// Flags are the words by which the operator's command meets the guards that it can meet.
func (r *Refusal) Flags() (flags []string) {
	for _, g := range r.guards {
		if g.Flag != "" {
			flags = append(flags, g.Flag)
		}
	}
	return flags
}

func refused(name string, no ...Guard) error {
	return &Error{verdict.ExitRefused, &Refusal{name, no}}
}
