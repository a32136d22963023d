package injectors

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/poll"
)

// Objects is what is asked of a cluster to make an object of any kind.
type Objects interface {
	Served(ctx context.Context, apiVersion, kind string) (k kube.Kind, ok bool, err error)
	Create(ctx context.Context, k kube.Kind, o kube.Object) (kube.Object, error)
	Read(ctx context.Context, k kube.Kind, name string) (o kube.Object, ok bool, err error)
	Delete(ctx context.Context, k kube.Kind, name, uid string) error
}

// An object is made as the manifest says, and what its controller then does is the fault: its time begins between the call and the look
// that showed it. It is deleted by its name if it bears the run's mark, and it is over when the API server has none of that name any more:
// a controller with a finalizer has undone it then.
var objects = Row{Needs: inCluster, Find: manifestOf, Do: makeObject, See: objectShows, End: gone(objectLook, deleteObject),
	Takes: func(h *Hit) time.Duration { return h.makes().Within + callWithin }}

// objectLook is how often an object is looked at: each look is a request or two to the API server.
const objectLook = 200 * time.Millisecond

func (h *Hit) makes() *fault.Object { return h.Spec.(fault.Making).Makes() }

// manifestOf fills the manifest in, and writes down what it makes.
func manifestOf(ctx context.Context, h *Hit) error {
	where, known := h.Home(""), map[string]string{}
	if h.fault().Victim != "" {
		pod, err := h.podNow(ctx)
		if err != nil {
			return err
		}
		in, name := kube.NamespaceIn(pod.Name)
		if in != "" {
			where = h.Home(in)
		}
		known["pod"], known["node"] = name, pod.Node
	}
	known["namespace"], known["run"] = where.Namespace, where.Run
	o, err := kube.ObjectOf(h.makes().Fill(known))
	if err != nil {
		return err
	}
	if in := o.GetNamespace(); in != "" && in != where.Namespace {
		if where = h.Home(in); where.Namespace != in {
			if where = h.Home(""); where.Namespace != in {
				return void(history.NoTarget, "namespace %s is none of the drill's", in)
			}
		}
	}
	sum := sha256.Sum256([]byte(where.Run + " " + h.Rec.Shot.Op))
	name := cmp.Or(o.GetName(), "lockdrill-"+hex.EncodeToString(sum[:6]))
	h.Rec.Cluster = &where
	h.Rec.Made = &undo.Made{Object: undo.Object{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: name}, Within: h.makes().Within}
	h.manifest = o
	return nil
}

// makeObject makes it where there is none of its name, and waits until it shows that its controller has done it.
func makeObject(ctx context.Context, h *Hit) error {
	c, k, err := h.served(ctx)
	if err != nil {
		return err
	}
	o, m := h.manifest, h.Rec.Made
	kube.Name(&o, k, m.Name, h.Rec.Cluster.Namespace)
	if err := kube.Mark(&o, h.Rec.Cluster.Run); err != nil {
		return err
	}
	h.Applied = history.At(h.now())
	call, done := context.WithTimeout(context.WithoutCancel(ctx), callWithin) // one that is made after its end was looked for would stay
	defer done()
	switch o, err = c.Create(call, k, o); {
	case errors.Is(err, kube.ErrAnother):
		return void(history.NoTarget, "%v", err)
	case err != nil:
		return err
	}
	h.object = string(o.GetUID())
	within, cancel := context.WithTimeout(ctx, min(h.makes().Within, h.lasts()))
	defer cancel()
	said := ""
	for range poll.Every(within, objectLook) {
		why, err := h.shows(within, c, k)
		switch {
		case err == nil && why == "":
			h.Applied.To = h.now()
			return nil
		case err == nil:
			said = why
		case said == "": // else what was seen says more than how the time was up
			said = err.Error()
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		said = history.RunEndedFirst
	}
	return void(history.Unconfirmed, "%s", said)
}

// objectShows reads it once more: it was not deleted, nor ended, since.
func objectShows(ctx context.Context, h *Hit) error {
	c, k, err := h.served(ctx)
	if err != nil {
		return err
	}
	said, err := h.shows(ctx, c, k)
	h.Window.To = h.now()
	if err != nil {
		return void(history.Unconfirmed, "%v", err)
	}
	if said != "" {
		return void(history.Unconfirmed, "%s", said)
	}
	h.Saw.Hits, h.Saw.Detail = 1, fmt.Sprintf("%s %s in namespace %s", h.Rec.Made.Kind, h.Rec.Made.Name, h.Rec.Cluster.Namespace)
	return nil
}

// shows says why the object does not show the fault; "" = it does.
func (h *Hit) shows(ctx context.Context, c Network, k kube.Kind) (why string, err error) {
	f, m := h.makes(), h.Rec.Made
	what := m.Kind + " " + m.Name
	o, there, err := c.Read(ctx, k, m.Name)
	switch {
	case err != nil:
		return "", err
	case !there, string(o.GetUID()) != h.object:
		return "somebody else has deleted " + what, nil
	case o.GetDeletionTimestamp() != nil:
		return "somebody else deletes " + what, nil
	}
	values, err := kube.Shown(o, f.Confirm)
	if err != nil {
		return "", err
	}
	bad := len(values) == 0
	for _, v := range values {
		bad = bad || f.Equals != "" && v != f.Equals
	}
	if !bad {
		return "", nil
	}
	return fmt.Sprintf("%s of %s is %s", f.Confirm, what, cmp.Or(strings.Join(values, ", "), "not there")), nil
}

// served is the cluster of the record, and how it serves the kind.
func (h *Hit) served(ctx context.Context) (Network, kube.Kind, error) {
	c, err := h.Cluster(ctx, h.Rec)
	if err != nil {
		return nil, kube.Kind{}, err
	}
	k, known, err := c.Served(ctx, h.Rec.Made.APIVersion, h.Rec.Made.Kind)
	if err == nil && !known {
		err = fmt.Errorf("the API server knows no kind %s of %s", h.Rec.Made.Kind, h.Rec.Made.APIVersion)
	}
	return c, k, err
}

// deleteObject asks for its end, if it is the run's, and says whether it was still there.
func deleteObject(ctx context.Context, c Network, r *undo.Record) (left bool, what string, err error) {
	m := r.Made
	what = m.Kind + " " + m.Name + " is still there"
	k, known, err := c.Served(ctx, m.APIVersion, m.Kind)
	if err != nil || !known { // with its kind went all objects of it
		return err != nil, what, err
	}
	o, there, err := c.Read(ctx, k, m.Name)
	if err != nil || !there || kube.MarkOf(o) != r.Cluster.Run {
		return err != nil, what, err
	}
	if wait := o.GetFinalizers(); len(wait) > 0 {
		what += ", held by " + strings.Join(wait, ", ")
	}
	if o.GetDeletionTimestamp() == nil {
		if err = c.Delete(ctx, k, m.Name, string(o.GetUID())); isAnother(err) {
			err = nil
		}
	}
	return true, what, err
}
