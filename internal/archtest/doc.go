// Package archtest holds the project's structure to its word: who may import whom, and a few rules about every file.
// It contains tests only. Its one invariant: a package that the policy does not place fails the build until somebody decides
// where it belongs.
package archtest
