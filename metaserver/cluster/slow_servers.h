/// Servers that others avoid, because a disk or link of theirs is slower than their peers'.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/cluster/server_registry.h"

namespace kintsugi::metaserver {

/// What the monitor said last. It is a preference and never a condition: a server of this list takes part wherever
/// there are not enough others. So that a monitor which is wrong, or dies, costs little:
/// - what it said is forgotten kBelieved after it said so last, or at once when it leaves the server out;
/// - at most one server in kOneOf is avoided, the slowest, and one that is already goes before others.
///
/// In memory only: after a restart of the metaserver the monitor says it again within a second.
class SlowServers {
 public:
  static constexpr Duration kBelieved = std::chrono::seconds(30);
  static constexpr size_t kOneOf = 5;
  /// A constant, whatever the size of the cluster: answers to clients carry the list.
  static constexpr size_t kMost = 64;

  /// References must outlive it.
  SlowServers(const ServerRegistry& servers, const runtime::Clock& clock)
      : servers_(servers), clock_(clock) {}

  /// All servers that the monitor finds slow now, in place of those before. Unknown and dead ones are left out.
  void tell(const google::protobuf::RepeatedPtrField<proto::SlowServer>& slow);

  bool contains(ServerId server) const { return find(server) != nullptr; }
  /// Why the server is avoided; null: it is not.
  const proto::SlowServer* find(ServerId server) const;
  /// All of them, by id.
  std::vector<ServerId> list() const;

 private:
  bool believed() const { return told_ && clock_.now() < *told_ + kBelieved; }

  const ServerRegistry& servers_;
  const runtime::Clock& clock_;
  std::map<ServerId, proto::SlowServer> slow_;
  std::optional<TimePoint> told_;
};

}  // namespace kintsugi::metaserver
