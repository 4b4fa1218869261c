#include "tracing/agent/trace_service.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/ranges.h>

#include "common/base/quote.h"
#include "common/runtime/production/kernel_random.h"
#include "tracing/agent/agent.h"

namespace kintsugi::tracing {
namespace {

constexpr std::string_view kMethod = "method:";
/// Of a name that nobody knows, in the message that says so.
constexpr size_t kMostLetters = 40;
/// Whoever attaches or announces a call waits no longer.
constexpr auto kPrepareLimit = std::chrono::seconds(5);
constexpr auto kPrepareLook = std::chrono::milliseconds(1);

AttachOptions options_of(const proto::TraceRequest& request) {
  AttachOptions options;
  options.session.directory = default_trace_directory();
  options.session.start = request.start();
  options.session.mode = request.circular() ? Mode::kCircular : Mode::kLinear;
  if (request.bytes() != 0) options.session.bytes = request.bytes();
  // What is longer than a day is refused by the agent, and must not overflow before.
  constexpr uint64_t kMost = uint64_t{AttachOptions::kMostTime / std::chrono::milliseconds(1)} + 1;
  if (request.limit_ms() != 0) options.limit = std::chrono::milliseconds(std::min(request.limit_ms(), kMost));
  if (request.recorded_for_ms() != 0)
    options.recorded_for = std::chrono::milliseconds(std::min(request.recorded_for_ms(), kMost));
  for (const proto::RecordedValues& each : request.recorded()) {
    constexpr uint32_t kAll = 0xff;  // what is beyond is refused
    options.session.recorded.push_back(
        {each.function(), static_cast<uint8_t>(std::min(each.places(), kAll))});
  }
  options.owner = request.owner();
  if (options.owner != 0)
    options.follow = FollowTerms{.hops = request.hops(),
                                 .bytes = options.session.bytes,
                                 .circular = request.circular(),
                                 .recorded = options.session.recorded};
  return options;
}

/// Pids are those of a container, and others have the same.
uint64_t number_of_process() {
  static const uint64_t number = runtime::KernelRandom().next() | 1;
  return number;
}

Status no_owner() {
  return {Code::kInvalidArgument, "a call without an owner cannot be followed"};
}

Status no_one_follows(std::string_view start) {
  return {Code::kInvalidArgument, fmt::format("{} is no request: what is followed is method:NAME, or all",
                                              quoted(start, kMostLetters))};
}

using SteadyTime = std::chrono::steady_clock::time_point;

/// Returns a little later. False: not before the deadline.
asio::awaitable<bool> look_later(asio::steady_timer& timer, SteadyTime deadline) {
  if (std::chrono::steady_clock::now() >= deadline) co_return false;
  timer.expires_after(kPrepareLook);
  co_await timer.async_wait(asio::use_awaitable);
  co_return true;
}

/// Attaches, and waits for those who are about to leave.
asio::awaitable<Status> attach(AttachOptions options, SteadyTime deadline) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  Status attached = Agent::of_process().attach(options);
  while (attached.code() == Code::kUnavailable && co_await look_later(timer, deadline))
    attached = Agent::of_process().attach(options);
  co_return attached;
}

}  // namespace

void describe(const AgentStatus& status, proto::TraceResponse& response) {
  response.set_phase(static_cast<proto::TraceResponse::Phase>(status.phase));
  response.set_path(status.path);
  response.set_code(static_cast<uint32_t>(status.failure.code()));
  response.set_failure(status.failure.message());
  response.set_left_ms(static_cast<uint64_t>(status.left / std::chrono::milliseconds(1)));
  response.set_functions(status.functions);
  response.set_patched(status.patched);
  response.set_met(status.met);
  response.set_began(status.began);
  response.set_began_unix_ms(status.began_unix_ms);
  response.set_owner(status.owner);
  response.set_owners(status.owners);
  response.set_end(static_cast<proto::TraceResponse::End>(status.end));
  response.set_process(number_of_process());
  const Following& following = Following::of_process();
  response.set_requests(following.requests(status.owner));
  for (const auto& [address, outcome] : following.peers(status.owner)) {
    proto::FollowedPeer& peer = *response.add_followed();
    peer.set_address(address);
    peer.set_code(static_cast<uint32_t>(outcome.code()));
    peer.set_failure(outcome.message());
  }
}

Result<const void*> TraceService::code_of_method(std::string_view name) const {
  if (followed_ == Followed::kOwnWork)
    return Status{
        Code::kInvalidArgument,
        "no requests of methods come to a mount: say a function, or all for what applications ask it for"};
  const auto method = rpc::method_named(name);
  if (const void* const code = method ? server_.code_of(*method) : nullptr) return code;
  std::vector<std::string_view> served;
  for (size_t i = 0; i < rpc::kMethods; ++i)
    if (const auto each = static_cast<rpc::Method>(i); server_.code_of(each) != nullptr)
      served.push_back(rpc::method_name(each));
  std::ranges::sort(served);
  return Status{Code::kNotFound, fmt::format("this daemon does not serve {}; it serves {}",
                                             quoted(name, kMostLetters), fmt::join(served, ", "))};
}

Result<AttachOptions> TraceService::attach_options(const proto::TraceRequest& request) const {
  AttachOptions options = options_of(request);
  const std::string_view start = request.start();
  const bool is_method = start.starts_with(kMethod);
  if (is_method) {
    KINTSUGI_ASSIGN(options.session.start_code, code_of_method(start.substr(kMethod.size())));
  }
  KINTSUGI_ASSIGN(options.event, parse_start_event(start));
  if (options.event && options.event->kind == StartEvent::Kind::kSlow)
    if (const auto served = code_of_method(rpc::method_name(options.event->method)); !served)
      return served.error();
  if (request.follow() && !options.follow) return no_owner();
  if (!request.follow()) options.follow.reset();
  if (options.follow) {
    if (!is_method && start != kEveryFunction) return no_one_follows(start);
    options.follow->everything = !is_method;
    options.follow->own_work = !is_method && followed_ == Followed::kOwnWork;
    if (is_method) options.follow->method = rpc::method_named(start.substr(kMethod.size()));
    // A request is known by its frame, which comes before its handler begins.
    options.session.start = kEveryFunction;
    options.session.start_code = nullptr;
  }
  return options;
}

asio::awaitable<Status> TraceService::follow(const proto::TraceRequest& request) {
  if (request.owner() == 0) co_return no_owner();
  AttachOptions options = options_of(request);
  options.session.start = kEveryFunction;
  const auto deadline = std::chrono::steady_clock::now() + kPrepareLimit;
  KINTSUGI_CO_TRY(co_await attach(std::move(options), deadline));
  const Agent& agent = Agent::of_process();
  asio::steady_timer timer(co_await asio::this_coro::executor);
  AgentStatus status = agent.status(request.owner());
  while (status.phase == Phase::kPreparing && co_await look_later(timer, deadline))
    status = agent.status(request.owner());
  if (status.phase == Phase::kFailed) co_return status.failure;
  if (status.phase == Phase::kPreparing) co_return Status{Code::kDeadlineExceeded, "it prepares too long"};
  co_return Following::of_process().expect(request.owner(), request.connection(), request.call());
}

asio::awaitable<Status> TraceService::operator()(Context, const proto::TraceRequest& request,
                                                 proto::TraceResponse& response) {
  Agent& agent = Agent::of_process();
  switch (request.action()) {
    case proto::TraceRequest::ATTACH: {
      KINTSUGI_CO_ASSIGN(AttachOptions options, attach_options(request));
      KINTSUGI_CO_TRY(co_await attach(std::move(options), std::chrono::steady_clock::now() + kPrepareLimit));
      break;
    }
    case proto::TraceRequest::DETACH: KINTSUGI_CO_TRY(agent.detach(request.owner())); break;
    case proto::TraceRequest::FOLLOW: KINTSUGI_CO_TRY(co_await follow(request)); break;
    case proto::TraceRequest::READ: {
      KINTSUGI_CO_ASSIGN(*response.mutable_data(), agent.read(request.owner(), request.offset(), kMostBytes));
      break;
    }
    case proto::TraceRequest::STATUS: break;
    default: co_return Status{Code::kInvalidArgument, "an unknown request to trace"};
  }
  describe(agent.status(request.owner()), response);
  co_return Status{};
}

}  // namespace kintsugi::tracing
