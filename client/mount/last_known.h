/// What was last told of the root and of the space, so that `df` and `stat` of a mount's root hang for nobody while
/// the metaserver is away: programs that only look at what is mounted are on every machine.
#pragma once

#include <optional>

#include "client/mount/kernel/file_system.h"
#include "common/proto/types.pb.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"

namespace kintsugi::mount {

class LastKnown {
 public:
  /// The metaserver is asked for so long when the answer is known from before.
  static constexpr Duration kPatience = std::chrono::seconds(2);

  explicit LastKnown(runtime::Clock& clock) : clock_(clock) {}

  std::optional<proto::Attributes> root;
  std::optional<FileSystemSpace> space;  ///< space of the whole cluster

  /// Returns the context for a question whose answer is `known` from before.
  Context asking(const Context& context, bool known) const {
    return known ? context.with_deadline(clock_.now() + kPatience) : context;
  }
  /// Returns true for an error that the answer from before may stand in for.
  static bool is_away(const Status& status) {
    return status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded;
  }

 private:
  runtime::Clock& clock_;
};

}  // namespace kintsugi::mount
