//go:build full

package main

const buildTags = "full" // of the binary that is tested, as of the tests
