package rows

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockdrill/lockdrill/probes/effects"
)

// standing is what a server says of transactions that may write: PostgreSQL by numbers, MySQL's protocol by names.
type standing struct {
	oldest, next int64    // all below oldest had ended, none from next on had begun
	names        []string // that were open
	unknown      bool     // the server does not say
}

// over reports that all that were open at s had ended by now.
func (s standing) over(now standing) bool {
	if s.unknown || now.unknown {
		return false
	}
	return now.oldest >= s.next && !slices.ContainsFunc(s.names, func(n string) bool { return slices.Contains(now.names, n) })
}

// dialect is what differs between servers.
type dialect interface {
	quote(name string) string
	primary(ctx context.Context, tx *sql.Tx) error           // refuses a standby, which may lag
	open(ctx context.Context, db *sql.DB) (*standing, error) // nil = it is too early to ask again
}

var errStandby = effects.Declared("the server is a standby, which may lag behind: name the primary")

// postgres asks for a snapshot.
type postgres struct{}

func (postgres) quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func (postgres) primary(ctx context.Context, tx *sql.Tx) error {
	var standby bool
	if err := tx.QueryRowContext(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return err
	}
	if standby {
		return errStandby
	}
	return nil
}

func (postgres) open(ctx context.Context, db *sql.DB) (*standing, error) {
	s := &standing{}
	err := db.QueryRowContext(ctx, "SELECT txid_snapshot_xmin(s), txid_snapshot_xmax(s) FROM txid_current_snapshot() s").Scan(&s.oldest, &s.next)
	return s, err
}

// mariadb is any server of MySQL's protocol with InnoDB, which lists its transactions to whom may see them.
type mariadb struct{ asked time.Time }

// listed is how long the list must be left alone before it is made anew (0.1 s of idleness).
const listed = 150 * time.Millisecond

// reader is where the ids of transactions that only read begin.
const reader = "281474976710656"

func (*mariadb) quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func (*mariadb) primary(ctx context.Context, tx *sql.Tx) error {
	var readOnly bool
	if err := tx.QueryRowContext(ctx, "SELECT @@global.read_only").Scan(&readOnly); err != nil {
		return err
	}
	if readOnly {
		return errStandby
	}
	return nil
}

// denied are the numbers of errors that say: not for you.
var denied = []uint16{1044, 1045, 1142, 1227}

// open lists the transactions that are open. Who may not see them reads from the beginning of the run each time.
func (m *mariadb) open(ctx context.Context, db *sql.DB) (*standing, error) {
	if time.Since(m.asked) < listed {
		return nil, nil
	}
	defer func() { m.asked = time.Now() }()
	rows, err := db.QueryContext(ctx, "SELECT trx_id FROM information_schema.innodb_trx WHERE trx_id < "+reader)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && slices.Contains(denied, refused.Number) {
		return &standing{unknown: true}, nil
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := &standing{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		s.names = append(s.names, name)
	}
	return s, rows.Err()
}
