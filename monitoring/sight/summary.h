/// What a heartbeat says of a process: counts, and the line of the task that has been without progress longest.
#pragma once

#include "common/proto/sight.pb.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {

/// The line has at most 256 bytes.
proto::SightSummary summarise(const Recorder& recorder, Duration loop_lag,
                              Duration still = std::chrono::seconds(5));

}  // namespace kintsugi::sight
