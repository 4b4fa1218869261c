/// kintsugi trace attach: has a daemon record itself, and waits until that has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/traced_daemon.h"

namespace kintsugi::cli {

struct AttachArguments {
  std::string where, start = "all", lasts = "10s", recorded_for, out, directives;
  uint64_t bytes = 64 << 20;
  bool circular = false, follow = false, by_signal = false;
};

/// Options of the command beside the daemon, which are read into `arguments`.
std::vector<Option> attach_options(AttachArguments& arguments);
Status attach(Session& session, const AttachArguments& arguments);

/// Prints what a daemon says of its recording, and what became of others that belong to it.
void show_recording(Session& session, const proto::TraceResponse& answer,
                    const std::vector<FollowedProcess>& followed = {});

}  // namespace kintsugi::cli
