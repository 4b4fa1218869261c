/// Functions whose arguments a trace has, for by them the records of many requests are told apart (events/).
#pragma once

#include <cstdint>
#include <string_view>

namespace kintsugi::tracing {

/// A coroutine that continues, or ends, has its frame as the only argument.
inline constexpr std::string_view kResumed = ".resume", kDestroyed = ".destroy", kCleanedUp = ".cleanup";
/// common/rpc/frame_marks.h: the connection, the number of the frame, its bytes, the call, what it is.
inline constexpr std::string_view kFrameSent = "rpc::frame_sent", kFrameReceived = "rpc::frame_received";
/// What an event loop is given to do, and does later: the same operation is the second argument of both.
inline constexpr std::string_view kPosted = "boost::asio::detail::scheduler::post_immediate_completion",
                                  kPostedLater = "boost::asio::detail::scheduler::post_deferred_completion",
                                  kPostedDone = "boost::asio::detail::executor_op::do_complete";

/// Those of a function by its mangled name: bit 0 stands for the first one.
uint8_t recorded_arguments(std::string_view mangled);

}  // namespace kintsugi::tracing
