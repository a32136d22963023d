//go:build !full

package store

const driver = ""
