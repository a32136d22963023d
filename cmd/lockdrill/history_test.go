package main

import (
	"os"
	"path/filepath"

	"github.com/lockdrill/lockdrill/history"
)

// readHistory is the whole history of a run's folder.
func readHistory(dir string) (*history.History, error) {
	f, err := os.Open(filepath.Join(dir, historyFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return history.Read(f)
}
