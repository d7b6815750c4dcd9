#!/usr/bin/env bash
# Hadoop's S3 file system for Spark, by Maven, into build/servers/s3: the parts of the AWS SDK that it uses instead of the bundle of all.
# Quick when they are there. Prints the directory.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

place=build/servers/s3
HADOOP=3.5.0
SDK=2.35.4
ACCELERATOR=1.3.1

if [ -e "$place/complete-$HADOOP-$SDK-$ACCELERATOR" ]; then
    echo "$PWD/$place"
    exit
fi
command -v mvn >/dev/null || { echo "error: Maven is needed (mvn)" >&2; exit 1; }
rm -rf "$place"
mkdir -p "$place"

part() { printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>%s</dependency>' "$@"; }
alone='<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>'

cat >"$place/pom.xml" <<END
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidegate</groupId><artifactId>s3</artifactId><version>1</version>
  <dependencies>
    $(part org.apache.hadoop hadoop-aws "$HADOOP" "$alone")
    $(part software.amazon.awssdk s3 "$SDK" "")
    $(part software.amazon.awssdk s3-transfer-manager "$SDK" "")
    $(part software.amazon.awssdk sts "$SDK" "")
    $(part software.amazon.s3.analyticsaccelerator analyticsaccelerator-s3 "$ACCELERATOR" "$alone")
  </dependencies>
</project>
END
mvn -q -B -f "$place/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$PWD/$place/jars" >&2
touch "$place/complete-$HADOOP-$SDK-$ACCELERATOR"
echo "$PWD/$place"
