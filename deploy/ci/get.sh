# LOCKDRILL says where lockdrill is: an https:// address or a path, of the program or of an archive (.tar.gz) with it. If
# LOCKDRILL_SHA256 is set, its sum must be that. <<if .Reusable>>Without LOCKDRILL it is built from LOCKDRILL_SOURCE.<<else>>A lockdrill on the PATH needs neither.<<end>>
set -eu
add() { # packages of Debian or Ubuntu
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || [ "${SUDO:-}" ]; } || return 1
  ${SUDO:-} apt-get update -q && ${SUDO:-} apt-get install -q -y --no-install-recommends "$@"
}
<<- if .Reusable>>
{
  if [ -z "${LOCKDRILL:-}" ]; then # the commit that is checked out
    command -v go >/dev/null || { echo "building lockdrill takes Go; or give an archive and its sha256" >&2; exit 2; }
    mkdir -p "$LOCKDRILL_BIN"
    LOCKDRILL=$LOCKDRILL_BIN/lockdrill.built LOCKDRILL_SHA256=''
    go build -C "$LOCKDRILL_SOURCE" -buildvcs=false -tags full -o "$LOCKDRILL" ./cmd/lockdrill
  elif [ -z "${LOCKDRILL_SHA256:-}" ]; then
    echo "an archive needs its sum: give sha256 as well" >&2
    exit 2
  fi
<<- else>>
if ! command -v lockdrill; then
  if [ -z "${LOCKDRILL:-}" ]; then
    echo "set the variable LOCKDRILL to the address or the path of lockdrill's archive or program" >&2
    exit 2
  fi
<<- end>>
  mkdir -p "$LOCKDRILL_BIN"
  got=$LOCKDRILL_BIN/lockdrill.got
  case $LOCKDRILL in
  https://* | http://*)
    command -v curl >/dev/null || add ca-certificates curl
    curl -fsSL --retry 3 -o "$got" "$LOCKDRILL"
    ;;
  *) cp "$LOCKDRILL" "$got" ;;
  esac
  if [ "${LOCKDRILL_SHA256:-}" ]; then echo "$LOCKDRILL_SHA256  $got" | sha256sum -c; fi
  # what is no archive is the program
  if tar -xzf "$got" -C "$LOCKDRILL_BIN" --strip-components=1 2>/dev/null; then rm "$got"; else mv "$got" "$LOCKDRILL_BIN/lockdrill"; fi
  chmod +x "$LOCKDRILL_BIN/lockdrill"
  "$LOCKDRILL_BIN/lockdrill" --version
<<if .Reusable>>}<<else>>fi<<end>>
<<- if .Redis>>
<<- if .Spawns>>
command -v redis-server || add redis-server || { echo "this drill starts redis-server: install it on this runner" >&2; exit 2; }
<<- else>>
command -v redis-server || add redis-server || echo "no redis-server on this runner: the locks live in a store inside lockdrill" >&2
<<- end>>
<<- end>>
