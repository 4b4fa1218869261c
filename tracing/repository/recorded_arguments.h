/// Functions whose arguments a trace has, for by them the records of many requests are told apart (events/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace kintsugi::tracing {

/// A coroutine that continues, or ends, has its frame as the only argument.
inline constexpr std::string_view kResumed = ".resume", kDestroyed = ".destroy", kCleanedUp = ".cleanup";
/// common/rpc/frame_marks.h: the connection, the number of the frame, its bytes, the call, what it is.
inline constexpr std::string_view kFrameSent = "rpc::frame_sent", kFrameReceived = "rpc::frame_received";
/// It has a coroutine that was suspended continue (common/runtime/resumption.h): none begins there.
inline constexpr std::string_view kContinues = "runtime::Resumption::Impl::resume";
/// What an event loop is given to do, and does later: the same operation is the second argument of both.
inline constexpr std::string_view kPosted = "boost::asio::detail::scheduler::post_immediate_completion",
                                  kPostedLater = "boost::asio::detail::scheduler::post_deferred_completion",
                                  kPostedDone = "boost::asio::detail::executor_op::do_complete";

/// Values of a function that are recorded, too, because somebody asked for them: who has directives of his own.
struct RecordedValues {
  std::string function;  ///< its short name (names.h)
  uint8_t places = 0;    ///< bit 0 stands for the first argument, bit kReturnedPlace - 1 for what it returns

  static constexpr size_t kMost = 1000, kMostLetters = 1000;
};
/// kInvalidArgument, kLimitExceeded.
Status check(std::span<const RecordedValues> values);

/// Those of a function by its mangled name, whoever asks: bit 0 stands for the first one.
uint8_t recorded_arguments(std::string_view mangled);

}  // namespace kintsugi::tracing
