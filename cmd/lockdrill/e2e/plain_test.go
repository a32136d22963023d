//go:build !full

package e2e

const buildTags = ""

// advisoryWorker is another worker, of the build that has its driver.
var advisoryWorker func() error
