# The status of this script is lockdrill's: 0 lets through. Only after 1 (the tool broke, nothing was judged) it tries once more;
# a failed SLO (10), "not shown" (11), a refusal (13) or an unverified clean-up (20) are answers, and another try would bury them.
set -euf
<<- if .Approve>>
# without a hash nothing was approved, and an empty one would let anything run
if [ -z "${DRILL_PLAN:-}" ]; then echo "DRILL_PLAN is empty: no plan was approved, nothing is run" >&2; exit 13; fi
<<- end>>
mkdir -p "$DRILL_REPORT"
cancelled=no
for attempt in 1 2; do
  pid='' cut=no early=no
  # a cancelled job waits until the drill has cleaned up; it may be cancelled before the drill has a number
  trap 'cut=yes cancelled=yes; if [ "$pid" ]; then kill -TERM "$pid" || :; else early=yes; fi' INT TERM
  # shellcheck disable=SC2086 # DRILL_FLAGS may be several words
  lockdrill run "$DRILL" --out "$DRILL_REPORT/attempt-$attempt" --junit "$DRILL_REPORT/junit.xml"<<.ResultFlag>><<if .Approve>> --plan "$DRILL_PLAN" $DRILL_CONSENT<<end>> $DRILL_FLAGS &
  pid=$! status=0
  if [ "$early" = yes ]; then cut=no; kill -TERM "$pid" || :; fi
  wait "$pid" || status=$?
  while [ "$cut" = yes ] && [ "$status" -gt 128 ]; do # the signal ended the wait, not the drill
    cut=no status=0
    wait "$pid" || status=$?
  done
  trap - INT TERM
  if [ "$status" != 1 ] || [ "$cancelled" = yes ]; then break; fi
  echo "lockdrill ended with status 1 (attempt $attempt of 2)" >&2
done
exit "$status"
