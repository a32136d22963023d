package selftest

import "github.com/lockdrill/lockdrill/experiments"

// Live is the drill of the case for real processes: worker is the command of a replica that is told by --animal what it is.
func (c *Case) Live(e *experiments.Experiment, worker []string, scale float64) {
	e.Redis.Mode, e.TimeScale = experiments.RedisSpawn, scale
	e.System.Worker = worker
	if c.Animal != "" {
		e.System.Worker = append(worker[:len(worker):len(worker)], "--animal", c.Animal)
	}
}

// NotPlayed is the error of a case that this machine could not play: it shows nothing, and the others go on.
type NotPlayed struct{ Why string }

func (n *NotPlayed) Error() string { return n.Why }
