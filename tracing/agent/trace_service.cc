#include "tracing/agent/trace_service.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "common/base/quote.h"
#include "tracing/agent/agent.h"

namespace kintsugi::tracing {
namespace {

constexpr std::string_view kMethod = "method:";
/// Of a name that nobody knows, in the message that says so.
constexpr size_t kMostLetters = 40;

void describe(const AgentStatus& status, proto::TraceResponse& response) {
  response.set_phase(static_cast<proto::TraceResponse::Phase>(status.phase));
  response.set_path(status.path);
  response.set_code(static_cast<uint32_t>(status.failure.code()));
  response.set_failure(status.failure.message());
  response.set_left_ms(static_cast<uint64_t>(status.left / std::chrono::milliseconds(1)));
  response.set_functions(status.functions);
  response.set_patched(status.patched);
  response.set_met(status.met);
}

}  // namespace

Result<const void*> TraceService::code_of_method(std::string_view name) const {
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

Status TraceService::attach(const proto::TraceRequest& request) const {
  AttachOptions options;
  options.session.directory = default_trace_directory();
  options.session.start = request.start();
  if (request.start().starts_with(kMethod)) {
    KINTSUGI_ASSIGN(options.session.start_code,
                    code_of_method(std::string_view(request.start()).substr(kMethod.size())));
  }
  options.session.mode = request.circular() ? Mode::kCircular : Mode::kLinear;
  if (request.bytes() != 0) options.session.bytes = request.bytes();
  // What is longer than a day is refused by the agent, and must not overflow before.
  constexpr uint64_t kMost = uint64_t{AttachOptions::kMostTime / std::chrono::milliseconds(1)} + 1;
  if (request.limit_ms() != 0) options.limit = std::chrono::milliseconds(std::min(request.limit_ms(), kMost));
  return Agent::of_process().attach(std::move(options));
}

asio::awaitable<Status> TraceService::operator()(Context, const proto::TraceRequest& request,
                                                 proto::TraceResponse& response) {
  Agent& agent = Agent::of_process();
  switch (request.action()) {
    case proto::TraceRequest::ATTACH: KINTSUGI_CO_TRY(attach(request)); break;
    case proto::TraceRequest::DETACH: KINTSUGI_CO_TRY(agent.detach()); break;
    case proto::TraceRequest::READ: {
      KINTSUGI_CO_ASSIGN(*response.mutable_data(), agent.read(request.offset(), kMostBytes));
      break;
    }
    case proto::TraceRequest::STATUS: break;
    default: co_return Status{Code::kInvalidArgument, "an unknown request to trace"};
  }
  describe(agent.status(), response);
  co_return Status{};
}

}  // namespace kintsugi::tracing
