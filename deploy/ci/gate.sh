# The status of this script is lockdrill's: 0 lets through. Only after 1 (the tool broke, nothing was judged) it tries once more;
# a failed SLO (10), "not shown" (11), a refusal (13) or an unverified clean-up (20) are answers, and another try would bury them.
set -eu
mkdir -p "$DRILL_REPORT"
for attempt in 1 2; do
  # DRILL_FLAGS is unquoted: it may be several words.
  lockdrill run "$DRILL" --out "$DRILL_REPORT/attempt-$attempt" --junit "$DRILL_REPORT/junit.xml"<<.ResultFlag>> $DRILL_FLAGS &
  drill=$! cut=
  trap 'cut=1; kill -TERM "$drill" || :' INT TERM # a cancelled job waits until the drill has cleaned up
  status=0
  wait "$drill" || status=$?
  while [ -n "$cut" ]; do # the signal ended the wait, not the drill
    cut= status=0
    wait "$drill" || status=$?
  done
  trap - INT TERM
  if [ "$status" != 1 ]; then break; fi
  echo "lockdrill ended with status 1 (attempt $attempt of 2)" >&2
done
exit "$status"
