#!/bin/sh
# Fetches a Kafka broker into build/servers/kafka (45 jars), once. Needs mvn.
set -eu
version=4.3.1
cd "$(dirname "$0")/../.."
place=build/servers/kafka
if [ -f "$place/$version" ]; then
  exit 0
fi
if ! command -v mvn >/dev/null 2>&1; then
  echo "mvn is missing: install maven (apt install maven)" >&2
  exit 1
fi
part="build/servers/kafka.$$"
mkdir -p "$part"
trap 'rm -rf "$part"' EXIT
cat >"$part/pom.xml" <<XML
<project><modelVersion>4.0.0</modelVersion><groupId>tidegate</groupId><artifactId>broker</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency></dependencies>
</project>
XML
mvn -q -B -f "$part/pom.xml" dependency:copy-dependencies -DoutputDirectory="$PWD/$part/lib" >&2
touch "$part/$version"
rm -rf "$place"
mv "$part" "$place"
