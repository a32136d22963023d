package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// The index over runs. Environments repeat from run to run, so each stands there once.
const runsSchema = `
CREATE TABLE IF NOT EXISTS environments (sum TEXT PRIMARY KEY, settings TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
	folder TEXT PRIMARY KEY, stamp TEXT NOT NULL, size INTEGER NOT NULL, state TEXT NOT NULL,
	id TEXT NOT NULL, bytes TEXT NOT NULL, experiment TEXT NOT NULL, started TEXT NOT NULL, verdict TEXT NOT NULL, exit INTEGER NOT NULL,
	rehearsal INTEGER NOT NULL, labels TEXT NOT NULL, why TEXT NOT NULL, uploader TEXT NOT NULL, beside TEXT NOT NULL,
	seen TEXT NOT NULL, environment TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS runs_of ON runs (experiment, started);
CREATE INDEX IF NOT EXISTS runs_id ON runs (id);
CREATE INDEX IF NOT EXISTS runs_beside ON runs (beside);
CREATE INDEX IF NOT EXISTS runs_by ON runs (started);
`

// State of a run's folder.
type State string

const (
	Judged  State = "judged"
	Running State = "running" // its history has no end yet, and grows
	Unread  State = "unread"  // it cannot be read: Why
)

// Run is what the index has of one run.
type Run struct {
	Folder     string // its name in the served folder
	Stamp      string // state of its files
	Size       int64  // bytes of its files
	State      State
	ID         string // as its history has it
	Bytes      string // digest of its history
	Experiment string
	Started    string // RFC 3339
	Verdict    string
	Exit       int
	Rehearsal  bool
	Labels     history.Labels
	Why        string // it cannot be read
	Uploader   string // the name of the token that it came with; "" = it was not uploaded
	Beside     string // folder of a run that it was uploaded for, with other bytes
	Contested  string // another run has its id and other bytes: that one's folder

	Seen *compare.Observed // what it brings to a comparison; only where it is asked for
}

// Answers reports whether the run may speak for its experiment: it can be read, and nobody contests which bytes are its own.
func (r *Run) Answers() bool { return r.State == Judged && r.Contested == "" && !r.Rehearsal }

const columns = `folder, stamp, size, state, id, bytes, experiment, started, verdict, exit, rehearsal, labels, why, uploader, beside,
	COALESCE((SELECT o.folder FROM runs o WHERE o.id = r.id AND r.id <> '' AND o.bytes <> r.bytes AND r.rehearsal = 0 AND o.rehearsal = 0 LIMIT 1),
		(SELECT o.folder FROM runs o WHERE o.folder = r.beside), (SELECT o.folder FROM runs o WHERE o.beside = r.folder LIMIT 1), '')`

// PutRuns writes what is known of runs, in place of what was.
func (s *Store) PutRuns(ctx context.Context, runs []Run) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		for i := range runs {
			if err := putRun(ctx, tx, &runs[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func putRun(ctx context.Context, tx *sql.Tx, r *Run) error {
	labels, err := json.Marshal(r.Labels)
	if err != nil {
		return err
	}
	seen, sum := []byte{}, ""
	if r.Seen != nil {
		o := *r.Seen
		settings, err := json.Marshal(o.Environment)
		if err != nil {
			return err
		}
		sum = fmt.Sprintf("%x", sha256.Sum256(settings))
		o.Environment = nil
		if seen, err = json.Marshal(&o); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO environments VALUES (?, ?)`, sum, string(settings)); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Folder, r.Stamp, r.Size, r.State, r.ID, r.Bytes, r.Experiment, r.Started, r.Verdict, r.Exit, r.Rehearsal, string(labels), r.Why, r.Uploader, r.Beside, string(seen), sum)
	return err
}

// DropRuns forgets runs whose folders are gone.
func (s *Store) DropRuns(ctx context.Context, folders []string) error {
	return s.Tx(ctx, func(tx *sql.Tx) error {
		for _, folder := range folders {
			if _, err := tx.ExecContext(ctx, `DELETE FROM runs WHERE folder = ?`, folder); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reindex forgets all runs: their folders are the truth.
func (s *Store) Reindex(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM runs; DELETE FROM environments`)
	return err
}

// Stamps are the states of the folders when they were read.
func (s *Store) Stamps(ctx context.Context) (map[string]string, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT folder, stamp FROM runs`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var folder, stamp string
		if err := rows.Scan(&folder, &stamp); err != nil {
			return nil, err
		}
		all[folder] = stamp
	}
	return all, rows.Err()
}

// Size is the bytes of all runs.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT COALESCE(SUM(size), 0) FROM runs`).Scan(&size)
	return size, err
}

// Query says which runs are meant. Its zero value means all.
type Query struct {
	Experiment string
	States     []State        // none = all
	Labels     history.Labels // a run must have all of these
	Live       bool           // no rehearsals
	Seen       bool           // with what they bring to a comparison
	Limit      int            // the latest; 0 = all
	Before     string         // started before
}

// Runs lists the runs, the latest first.
func (s *Store) Runs(ctx context.Context, q Query) ([]Run, error) {
	var where []string
	var args []any
	add := func(cond string, values ...any) { where, args = append(where, cond), append(args, values...) }
	if q.Experiment != "" {
		add("experiment = ?", q.Experiment)
	}
	if q.Before != "" {
		add("started < ?", q.Before)
	}
	if q.Live {
		add("rehearsal = 0")
	}
	if len(q.States) > 0 {
		for _, state := range q.States {
			args = append(args, state)
		}
		where = append(where, "state IN (?"+strings.Repeat(", ?", len(q.States)-1)+")")
	}
	for key, value := range q.Labels {
		add("labels ->> ? = ?", "$."+fmt.Sprintf("%q", key), value)
	}
	text := "SELECT " + columns
	if q.Seen {
		text += ", seen, (SELECT settings FROM environments e WHERE e.sum = r.environment)"
	}
	text += " FROM runs r"
	if len(where) > 0 {
		text += " WHERE " + strings.Join(where, " AND ")
	}
	text += " ORDER BY started DESC, folder DESC"
	if q.Limit > 0 {
		text += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	rows, err := s.db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Run
	environments := map[string][]experiments.Setting{}
	for rows.Next() {
		r, err := scanRun(rows, q.Seen, environments)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// Run is one run; sql.ErrNoRows where there is none.
func (s *Store) Run(ctx context.Context, folder string) (Run, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT "+columns+" FROM runs r WHERE folder = ?", folder)
	if err != nil {
		return Run{}, err
	}
	defer rows.Close()
	if !rows.Next() {
		return Run{}, cmp.Or(rows.Err(), sql.ErrNoRows)
	}
	return scanRun(rows, false, nil)
}

func scanRun(rows *sql.Rows, withSeen bool, environments map[string][]experiments.Setting) (Run, error) {
	var r Run
	var labels, seen string
	var settings sql.NullString
	to := []any{&r.Folder, &r.Stamp, &r.Size, &r.State, &r.ID, &r.Bytes, &r.Experiment, &r.Started, &r.Verdict, &r.Exit, &r.Rehearsal, &labels, &r.Why, &r.Uploader, &r.Beside, &r.Contested}
	if withSeen {
		to = append(to, &seen, &settings)
	}
	if err := rows.Scan(to...); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(labels), &r.Labels); err != nil {
		return r, fmt.Errorf("index of %s: %w; start once with --reindex", r.Folder, err)
	}
	if seen == "" {
		return r, nil
	}
	known, ok := environments[settings.String]
	if !ok && settings.String != "" {
		if err := json.Unmarshal([]byte(settings.String), &known); err != nil {
			return r, fmt.Errorf("index of %s: %w; start once with --reindex", r.Folder, err)
		}
		environments[settings.String] = known
	}
	if err := json.Unmarshal([]byte(seen), &r.Seen); err != nil {
		return r, fmt.Errorf("index of %s: %w; start once with --reindex", r.Folder, err)
	}
	r.Seen.Environment, r.Seen.Run.Folder = known, r.Folder
	return r, nil
}

// Experiments counts the runs of each experiment by their verdicts; runs that cannot be read have the verdict "".
func (s *Store) Experiments(ctx context.Context) (map[string]map[string]int, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT experiment, verdict, COUNT(*) FROM runs GROUP BY experiment, verdict`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]map[string]int{}
	for rows.Next() {
		var name, verdict string
		var n int
		if err := rows.Scan(&name, &verdict, &n); err != nil {
			return nil, err
		}
		if all[name] == nil {
			all[name] = map[string]int{}
		}
		all[name][verdict] = n
	}
	return all, rows.Err()
}
