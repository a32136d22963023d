# What a run would do is printed, and named by a hash: the run after the approval does that and nothing else. A plan that would be
# refused (13), or could not give an answer (11), asks nobody.
set -euf
mkdir -p lockdrill-plan
status=0
# shellcheck disable=SC2086 # DRILL_CONSENT may be several words
lockdrill plan "$DRILL" --hash $DRILL_CONSENT > lockdrill-plan/plan.txt || status=$?
cat lockdrill-plan/plan.txt
if [ "$status" != 0 ]; then exit "$status"; fi
sed -n 's/^hash  *//p' lockdrill-plan/plan.txt > lockdrill-plan/hash
if [ ! -s lockdrill-plan/hash ]; then echo "lockdrill plan printed no hash" >&2; exit 1; fi
