// Command hello is a binary for an image.
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Println("hello", len(os.Args)-1) }
