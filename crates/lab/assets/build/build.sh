#!/bin/sh
# Builds ../echarts.min.js anew. Needs npm; building Plimsoll does not.
set -eu
cd "$(dirname "$0")"
npm ci --no-audit --no-fund
npm run build
cp node_modules/echarts/LICENSE ../echarts.LICENSE
cp node_modules/echarts/NOTICE ../echarts.NOTICE
