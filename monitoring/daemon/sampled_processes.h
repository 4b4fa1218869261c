/// Which of the processes that report are sampled, and how each is reached from this machine. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "monitoring/model/snapshot.h"
#include "monitoring/recording/sampled_daemon.h"

namespace kintsugi::monitoring {

/// The machine as its processes name it in reports.
struct ThisMachine {
  std::string id;  ///< empty: not known, and nothing counts as local
  uint64_t pid_namespace = 0;
};

ThisMachine this_machine();

/// Where the HTTP pages of a process are reached from here; none: nowhere, as far as it says.
std::optional<runtime::Endpoint> page_of(const proto::SightReport& report, const ThisMachine& here);

/// Daemons and mounts, one for each name: the one that began last. A process of this machine and pid namespace is
/// local. The page of a process of another machine is left out when its address is one of its own loopback.
std::vector<recording::Target> sampled_processes(const model::Snapshot& snapshot, const ThisMachine& here);

}  // namespace kintsugi::monitoring
