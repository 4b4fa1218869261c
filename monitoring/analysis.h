/// The detectors over snapshots that a monitor kept: the same code as online, at leisure.
#pragma once

#include <string>
#include <vector>

namespace kintsugi::monitoring {

/// `kintsugi-monitor analyse [--method NAME] PATH...`: for every snapshot, in order, one line of JSON with its time
/// and its verdicts. A path is a segment of snapshots, a directory of them, or a monitor's data directory. Returns the
/// exit status: 0, 1 after an error, 2 when the arguments are not understood.
int analyse(const std::vector<std::string>& arguments);

}  // namespace kintsugi::monitoring
