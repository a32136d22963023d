package tap

import "strings"

// match reports that key fits a glob as Redis has it: * any bytes, ? one, [a-c] and [^a] sets, \ takes the next byte as it is.
func match(glob string, key []byte) bool {
	for len(glob) > 0 {
		switch glob[0] {
		case '*':
			for len(glob) > 1 && glob[1] == '*' {
				glob = glob[1:]
			}
			for i := 0; i <= len(key); i++ {
				if match(glob[1:], key[i:]) {
					return true
				}
			}
			return false
		case '[':
			if len(key) == 0 {
				return false
			}
			ok, rest := set(glob[1:], key[0])
			if !ok {
				return false
			}
			glob, key = rest, key[1:]
		default:
			any := glob[0] == '?'
			if glob[0] == '\\' && len(glob) > 1 {
				glob = glob[1:]
			}
			if len(key) == 0 || !any && glob[0] != key[0] {
				return false
			}
			glob, key = glob[1:], key[1:]
		}
	}
	return len(key) == 0
}

// set reports that c is in the set that glob begins with, behind its bracket, and returns what follows it.
func set(glob string, c byte) (ok bool, rest string) {
	not := len(glob) > 0 && glob[0] == '^'
	if not {
		glob = glob[1:]
	}
	for len(glob) > 0 && glob[0] != ']' {
		if glob[0] == '\\' && len(glob) > 1 {
			glob = glob[1:]
		}
		from, to := glob[0], glob[0]
		if len(glob) > 2 && glob[1] == '-' && glob[2] != ']' {
			to = glob[2]
			glob = glob[2:]
		}
		ok = ok || min(from, to) <= c && c <= max(from, to)
		glob = glob[1:]
	}
	if len(glob) > 0 {
		glob = glob[1:]
	}
	return ok != not, glob
}

// Quote returns the glob that fits name and nothing else.
func Quote(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(name)
}
