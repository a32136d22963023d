// Package e2e drills through the built command: real processes, stores, services in other languages, and clusters. It has tests alone, and knows
// nothing of the command but its flags, its status and what it prints and leaves. Its one invariant: what a run left is looked at by means of the tests' own.
package e2e
