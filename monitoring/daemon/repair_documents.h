/// Repairs that run, as JSON documents.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "monitoring/daemon/monitor.h"

namespace kintsugi::monitoring {

/// Documents of the repairs that run: who takes part by name, and how fast bytes go along the edges.
class RepairDocuments {
 public:
  explicit RepairDocuments(const Monitor& monitor);

  nlohmann::ordered_json of(const proto::RepairRecord& record) const;

 private:
  nlohmann::ordered_json nodes_of(const proto::RepairRecord& record) const;
  nlohmann::ordered_json edges_of(const proto::RepairRecord& record) const;
  std::string name_of(uint64_t node) const;
  /// What arrives at a server from another, in repairs and otherwise. Null: it is not known.
  nlohmann::ordered_json rate(uint64_t from, uint64_t to) const;

  const Monitor& monitor_;
  const model::Snapshot snapshot_;
  std::map<uint64_t, std::string> names_;
  std::map<uint64_t, const model::ProcessView*> processes_;  ///< key: server id
};

}  // namespace kintsugi::monitoring
