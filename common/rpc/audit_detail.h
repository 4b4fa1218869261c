/// What an administrative request is about, for the audit log.
#pragma once

#include <optional>
#include <string>

#include <google/protobuf/message_lite.h>

#include "common/rpc/method.h"

namespace kintsugi::rpc {

/// For people: "server 00000000c0ffee00, drain". None: it changes nothing, and needs no line. REQUIRES: `request` is one of
/// that method.
std::optional<std::string> audit_detail(Method method, const google::protobuf::MessageLite& request);

}  // namespace kintsugi::rpc
