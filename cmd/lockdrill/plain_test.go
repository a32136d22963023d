//go:build !full

package main

const buildTags = ""

// advisoryWorker is another worker, of the build that has its driver.
var advisoryWorker func() error
