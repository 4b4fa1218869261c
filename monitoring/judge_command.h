/// The analyses of recorded metrics, by command: the same code as online, at leisure.
#pragma once

#include <string>
#include <vector>

namespace kintsugi::monitoring {

/// `kintsugi-monitor judge [--method NAME] [--json] (--healthy TRACE | --since DURATION) TRACE`: what is unlike the
/// healthy trace, or the time before, and what will run out. A trace is a file, a table (.csv), or a directory that a
/// monitor records to; `@FROM..TO` after it takes a part. `--cut FILE` writes the trace instead. Returns the exit
/// status: 0: nothing is odd, 3: something is, 1 after an error, 2 when the arguments are not understood.
int judge_metrics(const std::vector<std::string>& arguments);

}  // namespace kintsugi::monitoring
