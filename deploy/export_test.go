package deploy

// Reusable are what others' pipelines name instead of a copy of a step, by path in this repository: an action of GitHub and a component of
// GitLab. They take lockdrill from the commit that is checked out, or from an archive with its sum.
func Reusable() (map[string][]byte, error) {
	made := map[string][]byte{}
	for path, of := range map[string]struct {
		name   string
		o      CIOptions
		result bool
	}{
		"action.yml":          {"ci/action.yaml", CIOptions{}, true},
		"templates/drill.yml": {"ci/gitlab.yaml", CIOptions{Experiment: "$[[ inputs.drill ]]"}, false},
	} {
		text, err := of.o.fill(of.name, of.result, true)
		if err != nil {
			return nil, err
		}
		made[path] = text
	}
	return made, nil
}
