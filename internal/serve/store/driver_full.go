//go:build full

package store

import _ "modernc.org/sqlite" // SQLite in pure Go

const driver = "sqlite"
