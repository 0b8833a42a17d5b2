#!/usr/bin/env bash
# Fetches a real server of another release from Debian's archive, without root and without touching what is
# installed: the package and the libraries it needs are unpacked into one folder, and a wrapper runs the
# program with that folder's own loader. Needs apt-get and dpkg-deb, on x86-64.
#
#   fetch-server.sh redis-6.0     Redis  6.0  (bullseye)
#   fetch-server.sh redis-7.0     Redis  7.0  (bookworm)
#   fetch-server.sh redis-8.0     Redis  8.0  (trixie)
#   fetch-server.sh valkey-8.1    Valkey 8.1  (trixie)
#   fetch-server.sh etcd-3.4      etcd   3.4  (bookworm)
#   fetch-server.sh etcd-3.5      etcd   3.5  (trixie)
#
# The last line printed is the path of the server's wrapper. Folder: $SERVERS_DIR, by default
# ~/.cache/real-servers. A server that is there already is not fetched again.
set -euo pipefail

case "${1:-}" in
  redis-6.0)  suite=bullseye package=redis-server  program=usr/bin/redis-server  also=redis-tools ;;
  redis-7.0)  suite=bookworm package=redis-server  program=usr/bin/redis-server  also=redis-tools ;;
  redis-8.0)  suite=trixie   package=redis-server  program=usr/bin/redis-server  also=redis-tools ;;
  valkey-8.1) suite=trixie   package=valkey-server program=usr/bin/valkey-server also=valkey-tools ;;
  etcd-3.4)   suite=bookworm package=etcd-server   program=usr/bin/etcd          also= ;;
  etcd-3.5)   suite=trixie   package=etcd-server   program=usr/bin/etcd          also= ;;
  *) sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//' >&2; exit 2 ;;
esac

name=$1
home=${SERVERS_DIR:-$HOME/.cache/real-servers}
root=$home/$name
wrapper=$root/run
if [[ -x $wrapper ]]; then echo "$wrapper"; exit 0; fi

archive=$(grep -rhoE '^(URIs: |deb (\[[^]]*\] )?)https?://[^ ]+' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
          grep -iE 'debian' | grep -viE 'security|nodesource|cloud' | grep -oE 'https?://[^ ]+' | head -n 1 || true)
[[ -n $archive ]] || { echo "fetch-server: no Debian archive among the apt sources" >&2; exit 1; }

apt=$home/.apt-$suite
mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc} "$root"
: >"$apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main" >"$apt/etc/sources.list"
options=(-o Dir::State="$apt/state" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
         -o Dir::Etc::sourcelist="$apt/etc/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
         -o APT::Install-Recommends=false -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Languages=none
         -o Acquire::AllowInsecureRepositories=false)
apt-get "${options[@]}" update -qq >&2

# the libraries it needs: every package that an install into an empty system would bring, less the maintenance tools
wanted=$(apt-get "${options[@]}" install --simulate -y "$package" $also 2>/dev/null | awk '/^Inst /{print $2}' |
         grep -E "^($package|${also:-$package}|libc6|libgcc-s1|libstdc\+\+6|libssl.*|libsystemd.*|libjemalloc2|liblzf1|libatomic1|liblua5.1-0|lua-.*|libcap2|libgcrypt.*|libgpg-error0|liblz4.*|liblzma5|libzstd1|zlib1g|libhiredis.*)$")
cd "$apt/cache/archives"
apt-get "${options[@]}" download $wanted >&2
for deb in *.deb; do dpkg-deb -x "$deb" "$root"; done
rm -f ./*.deb

loader=$(find "$root/" -name 'ld-linux-x86-64.so.2' | head -n 1)
target=$root/$program
[[ -e $target ]] || { echo "fetch-server: $program is not in $package" >&2; exit 1; }
cat >"$wrapper" <<RUN
#!/bin/sh
exec "$loader" --library-path "$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu" "$target" "\$@"
RUN
chmod +x "$wrapper"
echo "$wrapper"
