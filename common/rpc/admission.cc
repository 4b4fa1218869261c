#include "common/rpc/admission.h"

#include "common/log/audit_log.h"
#include "common/rpc/audit_detail.h"
#include "common/rpc/rights.h"

namespace kintsugi::rpc {

bool Admission::stands() const {
  use_->used(core_.runtime.clock.now());
  const uint64_t version = core_.secret.shared().version();
  if (version == stood_at_) return true;
  if (!core_.secret.accepts(by_.secret)) return false;
  stood_at_ = version;
  return true;
}

Status Admission::admit(CallerOf caller, Method method, google::protobuf::MessageLite& request) const {
  if (!by_.is_token()) return {};
  // The connection may be older than the token's end.
  const Status good = core_.refused.check(by_, core_.runtime.clock.wall_now());
  use_->set_refused(good.code() == Code::kPermissionDenied);
  KINTSUGI_TRY(good);
  KINTSUGI_TRY(check_right(by_, method));
  if (by_.squash && caller != nullptr) squash(*by_.squash, *caller(request));
  return core_.admit ? core_.admit(by_, method, request) : Status{};
}

void Admission::ended(Method method, const google::protobuf::MessageLite& request,
                      const Status& outcome) const {
  if (right_of(method) != Right::kAdminister) return;
  const std::string who = by_.is_token() ? fmt::format("token {} ({:016x})", by_.name, by_.id) : "the secret";
  const std::optional<std::string> detail = audit_detail(method, request);
  if (!detail) return;
  size_t left_out = 0;
  if (by_.is_token() && outcome.code() == Code::kPermissionDenied) {
    const auto allowed = core_.refusals.allow(core_.runtime.clock.now());
    if (!allowed) return;
    left_out = *allowed;
  }
  log::audit(fmt::format("{} from {}: {}{}{}: {}{}", who, peer_, method_name(method),
                         detail->empty() ? "" : " ", *detail,
                         outcome.ok() ? "done" : "refused or failed: " + outcome.message(),
                         left_out == 0 ? "" : fmt::format(" ({} more refusals were not told)", left_out)));
}

}  // namespace kintsugi::rpc
