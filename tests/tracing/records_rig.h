// Tests write the records of traced processes by hand with this rig, and look at the flows that they are separated into.
#pragma once

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/rpc/frame.h"
#include "tracing/events/separation.h"
#include "tracing/repository/recorded_arguments.h"

namespace kintsugi::tracing {

/// A process takes requests from this connection, and the coroutine that reads it has this frame.
inline constexpr uint64_t kConnection = 0x70, kServe = 0x1000;

/// Each call adds records to those of a process, 10 ns after the former ones: a tick is a nanosecond.
class TracedProcess {
 public:
  explicit TracedProcess(uint32_t pid, const std::string& binary = "kintsugi-chunkserver") {
    named.process = binary + " " + std::to_string(pid);
    named.binary = binary;
    named.trace.pid = pid;
    named.trace.end = End::kDetached;
    named.trace.latest = {.ticks = 1'000'000, .unix_ns = 1'000'000};
    named.trace.threads.resize(1);
  }

  void enter(const std::string& function, std::vector<uint64_t> arguments = {}) {
    add(Kind::kEntry, function);
    for (size_t i = 0; i < arguments.size(); ++i)
      add_argument(function, i + 1, arguments[i]);
  }
  void leave(const std::string& function) { add(Kind::kExit, function); }
  void leave(const std::string& function, uint64_t returned) {
    leave(function);
    add_argument(function, kReturnedPlace, returned);
  }
  void call(const std::string& function, std::vector<uint64_t> arguments = {}) {
    enter(function, std::move(arguments));
    leave(function);
  }
  /// The coroutine at `frame` goes on and calls these.
  void resume(const std::string& coroutine, uint64_t frame, const std::vector<std::string>& calls = {}) {
    enter(coroutine + ".resume", {frame});
    for (const std::string& each : calls)
      call(each);
    leave(coroutine + ".resume");
  }
  void frame(std::string_view mark, uint64_t channel, uint64_t number, uint64_t call_number,
             rpc::Method method, uint16_t flags) {
    call(std::string(mark), {channel, number, 100, call_number, static_cast<uint64_t>(method) << 16 | flags});
  }
  /// A request comes on the connection: it is the frame with this number there.
  void request(uint64_t number, uint64_t call_number, rpc::Method method) {
    frame(kFrameReceived, kConnection, number, call_number, method, rpc::kFlagRequest);
  }
  /// The event loop has somebody run `work`.
  template <class Work>
  void turn(Work work) {
    enter("boost::asio::detail::scheduler::do_run_one");
    enter("pump");
    work();
    leave("pump");
    leave("boost::asio::detail::scheduler::do_run_one");
  }
  /// The event loop has the coroutine that reads the connection go on, and this one runs `work`.
  template <class Work>
  void serve(Work work) {
    turn([&] {
      enter("serve.resume", {kServe});
      work();
      leave("serve.resume");
    });
  }

  NamedTrace named;
  uint64_t now = 0;
  size_t thread = 0;  ///< the one whose records are added

 private:
  uint32_t number_of(const std::string& function) {
    const auto [found, added] = numbers_.try_emplace(function, static_cast<uint32_t>(numbers_.size() + 1));
    if (added) named.functions.push_back(function);
    named.trace.functions = static_cast<uint32_t>(numbers_.size());
    return found->second;
  }
  void add(Kind kind, const std::string& function) {
    now += 10;
    named.trace.threads[thread].records.push_back(
        {.ticks = now, .function = number_of(function), .kind = kind});
  }
  void add_argument(const std::string& function, size_t place, uint64_t value) {
    named.trace.threads[thread].records.push_back({.ticks = value,
                                                   .function = number_of(function),
                                                   .kind = Kind::kArgument,
                                                   .extra = static_cast<uint16_t>(place)});
  }
  std::map<std::string, uint32_t> numbers_;
};

inline Separated separated(std::vector<NamedTrace> traces, SeparationSettings settings = {}) {
  Separation separation(std::move(settings));
  for (const NamedTrace& trace : traces)
    separation.add(trace);
  auto result = separation.finish();
  EXPECT_TRUE(result) << result.error();
  return std::move(*result);
}

/// Returns, for each flow that begins with this method, the functions that were entered in it.
inline std::vector<std::multiset<std::string>> functions_of(const Separated& all, std::string_view method) {
  std::vector<std::multiset<std::string>> found;
  for (flow::FlowId id = 0; id < all.flows.flows.size(); ++id) {
    if (all.trace.name_of(all.trace.event(all.flows.flows[id].root).function) != method) continue;
    auto& functions = found.emplace_back();
    for (flow::EventId event = 0; event < all.trace.size(); ++event)
      if (all.flows.of[event] == id && all.trace.event(event).kind == flow::Kind::kEntry)
        functions.emplace(all.trace.name_of(all.trace.event(event).function));
  }
  return found;
}

/// Two requests come on one connection in one turn of the event loop. The coroutine of each is posted, and waits for a disk.
inline TracedProcess two_requests() {
  TracedProcess server(1);
  constexpr uint64_t kFirst = 0x2000, kSecond = 0x3000, kPostedFirst = 0x91, kPostedSecond = 0x92;
  server.serve([&] {
    server.request(0, 1, rpc::Method::kReadChunk);
    server.call(std::string(kPosted), {0, kPostedFirst});
    server.request(1, 2, rpc::Method::kWriteChunk);
    server.call(std::string(kPosted), {0, kPostedSecond});
  });
  const auto begin = [&](uint64_t posted, uint64_t frame, const std::string& coroutine) {
    server.enter("boost::asio::detail::scheduler::do_run_one");
    server.enter(std::string(kPostedDone), {0, posted});
    server.resume(coroutine, frame, {coroutine + " begins"});
    server.resume("disk", frame + 8);
    server.leave(std::string(kPostedDone));
    server.leave("boost::asio::detail::scheduler::do_run_one");
  };
  begin(kPostedFirst, kFirst, "read");
  begin(kPostedSecond, kSecond, "write");
  server.now += 10'000;
  const auto end = [&](uint64_t frame, const std::string& coroutine) {
    server.turn([&] {
      server.resume("disk", frame + 8, {"disk ends"});
      server.resume(coroutine, frame, {coroutine + " ends"});
      server.call(coroutine + ".destroy", {frame});
    });
  };
  end(kSecond, "write");
  end(kFirst, "read");
  server.turn([&] { server.resume("serve", kServe, {"waits for more"}); });
  return server;
}

}  // namespace kintsugi::tracing
