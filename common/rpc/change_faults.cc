#include "common/rpc/change_faults.h"

#include <fmt/format.h>

namespace kintsugi::rpc {
namespace {

using runtime::Fault;
using runtime::FaultAction;
using runtime::FaultPoints;

constexpr uint64_t kMaxDelayMs = 3'600'000, kMaxBytes = 4ull << 30;

Result<Code> code_of(const std::string& name) {
  for (int code = 1; code <= static_cast<int>(kLastCode); ++code)
    if (code_name(static_cast<Code>(code)) == name) return static_cast<Code>(code);
  return Status{Code::kInvalidArgument, fmt::format("there is no error '{}'", name)};
}

Result<Fault> fault_of(const proto::InjectedFault& wanted) {
  Fault fault;
  KINTSUGI_ASSIGN(fault.point, runtime::fault_point_of(wanted.point()));
  KINTSUGI_ASSIGN(fault.action, runtime::fault_action_of(wanted.action()));
  const bool loses = fault.action == FaultAction::kHang || fault.action == FaultAction::kDelay;
  if (can_only_be_lost(fault.point) && !loses)
    return Status{Code::kInvalidArgument,
                  fmt::format("at {} there are only {} and {}", wanted.point(), name_of(FaultAction::kHang),
                              name_of(FaultAction::kDelay))};
  if (!wanted.code().empty()) {
    KINTSUGI_ASSIGN(fault.code, code_of(wanted.code()));
  }
  if (wanted.delay_ms() > kMaxDelayMs || wanted.bytes() > kMaxBytes)
    return Status{Code::kInvalidArgument, "a fault lasts at most an hour and takes at most 4 GiB"};
  fault.detail = wanted.detail();
  fault.skip = wanted.skip();
  fault.times = wanted.times();
  if (wanted.delay_ms() != 0) fault.delay = std::chrono::milliseconds(wanted.delay_ms());
  if (wanted.bytes() != 0) fault.bytes = wanted.bytes();
  return fault;
}

void describe(const FaultPoints::Listed& listed, proto::InjectedFault& into) {
  into.set_number(listed.number);
  into.set_point(std::string(name_of(listed.fault.point)));
  into.set_action(std::string(name_of(listed.fault.action)));
  into.set_detail(listed.fault.detail);
  into.set_skip(listed.fault.skip);
  into.set_times(listed.fault.times);
  into.set_delay_ms(static_cast<uint64_t>(listed.fault.delay / std::chrono::milliseconds(1)));
  into.set_code(std::string(code_name(listed.fault.code)));
  into.set_bytes(listed.fault.bytes);
  into.set_passed(listed.passed);
  into.set_happened(listed.happened);
  if (!listed.first) return;
  into.set_file(listed.first->where.file_name());
  into.set_line(listed.first->where.line());
  into.set_function(listed.first->where.function_name());
  into.set_region(std::string(listed.first->region));
}

}  // namespace

asio::awaitable<Status> ChangeFaults::operator()(Context, const proto::ChangeFaultsRequest& request,
                                                 proto::ChangeFaultsResponse& response) {
  if (faults_ == nullptr)
    co_return Status{Code::kNotSupported,
                     "this daemon was built without fault points (KINTSUGI_FAULT_POINTS): nothing can go "
                     "wrong in it on purpose"};
  std::vector<Fault> wanted;
  for (const proto::InjectedFault& each : request.set()) {
    KINTSUGI_CO_ASSIGN(Fault fault, fault_of(each));
    wanted.push_back(std::move(fault));
  }
  const std::vector<FaultPoints::Listed> before = faults_->list();
  const size_t kept = request.clear() ? 0 : before.size();
  if (kept + wanted.size() > FaultPoints::kMaxFaults)
    co_return Status{Code::kLimitExceeded,
                     fmt::format("at most {} faults are set at once", FaultPoints::kMaxFaults)};
  for (const uint64_t number : request.remove()) {
    const bool known = std::ranges::any_of(before, [&](const auto& each) { return each.number == number; });
    if (!known) co_return Status{Code::kNotFound, fmt::format("there is no fault {}", number)};
  }
  for (const uint64_t number : request.remove())
    (void)faults_->remove(number);
  if (request.clear()) faults_->clear();
  for (Fault& fault : wanted)
    (void)faults_->set(std::move(fault));
  for (const FaultPoints::Listed& listed : faults_->list())
    describe(listed, *response.add_faults());
  for (size_t i = 0; i < faults_->passes().size(); ++i) {
    auto& passes = *response.add_passes();
    passes.set_point(std::string(name_of(static_cast<runtime::FaultPoint>(i))));
    passes.set_passes(faults_->passes()[i]);
  }
  for (const auto& [place, count] : faults_->methods()) {
    auto& passes = *response.add_passes();
    passes.set_point(std::string(name_of(place.first)));
    passes.set_method(place.second);
    passes.set_passes(count);
  }
  co_return Status{};
}

}  // namespace kintsugi::rpc
