/// What a monitor has recorded of metrics, on the command line.
#pragma once

#include <string>
#include <vector>

namespace kintsugi::monitoring {

/// `kintsugi-monitor metrics [--export] [--server NAME] [--name METRIC]... [--since SECONDS] PATH`: the servers and how
/// many rows and metrics of each there are; with --export the rows as a table (RFC 4180) on standard output. A path is
/// a monitor's data directory, a directory of traces, or one file. Returns the exit status: 0, 1 after an error, 2 when
/// the arguments are not understood.
int show_metrics(const std::vector<std::string>& arguments);

}  // namespace kintsugi::monitoring
