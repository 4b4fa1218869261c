/// What a request concerns: paths and inodes, by method. Private to TokenGate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <google/protobuf/message_lite.h>

#include "common/rpc/method.h"

namespace kintsugi::metaserver {

/// REQUIRES: it is of that type.
template <class Request>
const Request& request_as(const google::protobuf::MessageLite& request) {
  return static_cast<const Request&>(request);
}

struct Targets {
  std::vector<std::string> paths;
  std::vector<uint64_t> inodes;
  /// What loses its name, or gets one: the directory above changes, so that it has to be inside, too.
  std::vector<std::string> renamed;
};

/// None: the request is about the whole cluster, or is not known here. Without any targets: the request concerns no files,
/// or proves by something signed that it may concern them.
std::optional<Targets> targets_of(rpc::Method method, const google::protobuf::MessageLite& request);

}  // namespace kintsugi::metaserver
