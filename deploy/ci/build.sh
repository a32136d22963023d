# lockdrill is taken from the PATH, else built from its source in the folder LOCKDRILL_SOURCE (a submodule, or a second checkout).
# A built binary, always: `go run` turns every failing status into 1.
set -eu
command -v lockdrill || go -C "$LOCKDRILL_SOURCE" build -o "$LOCKDRILL_BIN/lockdrill" ./cmd/lockdrill
