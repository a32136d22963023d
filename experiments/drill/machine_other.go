//go:build !unix

package drill

func mostFiles() uint64 { return 0 }
