//go:build !full

package main

const buildTags = ""
