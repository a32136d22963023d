//go:build full

package e2e

const buildTags = "full" // of the binary that is tested, as of the tests
