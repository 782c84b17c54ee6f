# Sourced by ./run and ./test: makes .venv in the checkout and keeps it true to the lock files.
#
# A stamp inside .venv says what it was made from: the checkout's place, Python's version and the check sums of
# pyproject.toml and the lock; a second one says which kernels were compiled. While they hold, a start costs one Python
# without site-packages (some 15 ms) and two check sums. Whatever else is found (nothing, half of it, another Python,
# another place) is mended or made again.
#
# set_up LOCK STAMP: installs LOCK and the package itself. Expects $root, the checkout.

say() { printf '%s: %s\n' "$program" "$*" >&2; }
fail() { say "$*"; exit 1; }

PYTHON_CHECK='import sys; print("%d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < (3, 11))'

# Calls: find_python; prints the first interpreter that is new enough.
find_python() {
  for candidate in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11 python; do
    if "$candidate" -I -S -c "$PYTHON_CHECK" >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  fail "no Python 3.11 or newer is on the PATH. Install one (for example python3.12), or name it: PYTHON=/path/to/python3 ./$program"
}

# One set-up at a time: a symbolic link is made atomically and carries the owner's process id.
take_turn() {
  told=
  while ! ln -s "$$" "$root/.venv.lock" 2>/dev/null; do
    owner=$(readlink "$root/.venv.lock" 2>/dev/null || true)
    if [ -z "$owner" ]; then
      [ -w "$root" ] || fail "cannot write to $root; the set-up keeps its files in the checkout"
    elif ! kill -0 "$owner" 2>/dev/null; then
      rm -f "$root/.venv.lock"
      continue
    elif [ -z "$told" ]; then
      say "another set-up is under way (process $owner); waiting for it"
      told=1
    fi
    sleep 1
  done
  trap 'rm -f "$root/.venv.lock"' EXIT
  trap 'exit 130' INT TERM HUP
}

wanted_stamp() (
  version=$("$root/.venv/bin/python" -I -S -c "$PYTHON_CHECK" 2>/dev/null) || return 1
  printf '%s\n%s\n' "$root" "$version"
  cd "$root" && cksum pyproject.toml "$1"
)

is_current() {
  [ -x "$root/.venv/bin/headrace" ] && [ -f "$root/.venv/$2" ] || return 1
  stamp=$(wanted_stamp "$1") && [ "$stamp" = "$(cat "$root/.venv/$2")" ]
}

wanted_warm_stamp() (
  cd "$root" && cksum src/headrace/records/kernels/*.py
)

is_warm() {
  [ -f "$root/.venv/warm.stamp" ] && [ "$(wanted_warm_stamp)" = "$(cat "$root/.venv/warm.stamp")" ]
}

# A venv is kept if its Python runs, is new enough, still finds pip, and stands where it was made.
is_usable_venv() {
  version=$("$root/.venv/bin/python" -I -S -c "$PYTHON_CHECK" 2>/dev/null) || return 1
  [ -d "$root/.venv/lib/python$version/site-packages/pip" ] || return 1
  grep -qsF "$root/.venv" "$root/.venv/bin/activate" && "$root/.venv/bin/python" -I -m pip --version >/dev/null 2>&1
}

make_venv() {
  python=$(find_python) || exit 1
  if [ -e "$root/.venv" ]; then
    say "making .venv anew (what is there cannot be used)"
    rm -rf "$root/.venv"
  else
    say "making .venv with $("$python" --version 2>&1)"
  fi
  "$python" -m venv "$root/.venv" >"$root/.venv.log" 2>&1 || {
    cat "$root/.venv.log" >&2
    fail "$python cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv; then start ./$program again"
  }
}

# Calls: entries_of LOCK 0|1; prints its entries that come as wheels (0), or as source archives (1). The latter is
# pyspark alone: nothing in it needs a compiler, but pip has to pack its jars before it unpacks them.
entries_of() {
  awk -v is_wanted="$2" '/^[^ #]/ { is_source = /^pyspark==/ } is_source == is_wanted' "$1"
}

# Says every now and then what pip is at, as long as the set-up runs and nobody ends this. Whoever reads what the script
# says by a pipe does not wait for the last sleep, which outlives it.
tell_progress() {
  said=
  while sleep 3 >/dev/null 2>&1 && kill -0 "$$" 2>/dev/null; do
    doing=$(sed -nE 's/^ *((Collecting|Downloading|Building|Installing) .*)/\1/p' "$root/.venv.log" | tail -n 1 | cut -c 1-80)
    [ "$doing" = "$said" ] || say "  $doing"
    said=$doing
  done
}

pip_install() {
  "$root/.venv/bin/python" -I -m pip install --disable-pip-version-check $cache "$@"
}

# The build tools are among the wheels, so that no build fetches what the lock does not name.
install_locked() {
  say "installing what $1 names from PyPI: Spark is 500 MB of it, so the first time takes a minute or three"
  cache=
  [ -n "${HOME:-}" ] && [ -w "${HOME:-}" ] || cache=--no-cache-dir
  entries_of "$1" 0 >"$root/.venv/wheels.lock"
  entries_of "$1" 1 >"$root/.venv/sources.lock"
  : >"$root/.venv.log"
  tell_progress &
  teller=$!
  installed=
  {
    pip_install --require-hashes --only-binary :all: -r "$root/.venv/wheels.lock" &&
      pip_install --require-hashes --no-deps --no-build-isolation -r "$root/.venv/sources.lock" &&
      pip_install --no-deps --no-build-isolation -e .
  } >>"$root/.venv.log" 2>&1 && installed=1
  kill "$teller" 2>/dev/null
  wait "$teller" 2>/dev/null
  [ -n "$installed" ] || {
    tail -n 12 "$root/.venv.log" >&2
    if grep -qiE 'resolution|connection|timed out|unreachable|proxy|from versions: none' "$root/.venv.log"; then
      fail "PyPI cannot be reached. Look at this machine's network or proxy (pip's own settings are honoured), then start ./$program again"
    elif grep -qi 'no space left' "$root/.venv.log"; then
      fail "the disk is full. Free about 4 GB, then start ./$program again"
    fi
    fail "the installation failed; pip's last lines are above and all of them in .venv.log"
  }
}

# Compiled kernels are kept beside their source, so the first start need not compile them.
# Bytecode likewise: a node's start is half as long with it, and some environments keep Python from writing it.
warm_kernels() {
  say "compiling the record kernels"
  "$root/.venv/bin/python" -m compileall -q "$root/src/headrace" >/dev/null 2>&1 || true
  "$root/.venv/bin/python" -c 'from headrace.records.kernels.choice import warm; warm()' >"$root/.venv.log" 2>&1 || {
    tail -n 12 "$root/.venv.log" >&2
    fail "the record kernels did not compile; the lines above say why and .venv.log has all of them"
  }
}

set_up() {
  if is_current "$1" "$2" && is_warm; then return; fi
  take_turn
  if ! is_current "$1" "$2"; then
    is_usable_venv || make_venv
    (cd "$root" && install_locked "$1") || exit 1
    wanted_stamp "$1" >"$root/.venv/$2"
  fi
  if ! is_warm; then
    warm_kernels
    wanted_warm_stamp >"$root/.venv/warm.stamp"
  fi
  rm -f "$root/.venv.log" "$root/.venv.lock"
  trap - EXIT INT TERM HUP
}
