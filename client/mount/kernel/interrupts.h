/// Which requests are answered before their handlers have ended, since their applications were killed or got a signal.
#pragma once

#include "client/mount/kernel/requests_in_flight.h"
#include "common/runtime/clock.h"

namespace kintsugi::mount {

/// The interface to answer a request before its operation has ended.
class EarlyAnswers {
 public:
  /// Answers EINTR; the handler continues.
  virtual void abandon(Request& request) = 0;

 protected:
  ~EarlyAnswers() = default;
};

/// Handlers hear of a signal at once (Interrupt). An application hears EINTR when its request is older than the
/// patience, and its operation gives up then (Operation::gives_up).
class Interrupts {
 public:
  /// References outlive it.
  Interrupts(runtime::Clock& clock, const RequestsInFlight& requests, Duration patience,
             EarlyAnswers& answers)
      : clock_(clock), requests_(requests), patience_(patience), answers_(answers) {}

  /// `message` is the kernel's INTERRUPT.
  void on_interrupt(const Request& message);
  /// Ends old requests of applications that were killed. For when the kernel's interrupts cannot be read.
  void look_for_killed();
  /// The request has ended.
  void forget(Request& request);

 private:
  /// From `due` on the request is answered with EINTR, once its operation gives up.
  void look_after(Request& request, TimePoint due);

  runtime::Clock& clock_;
  const RequestsInFlight& requests_;
  const Duration patience_;
  EarlyAnswers& answers_;
};

}  // namespace kintsugi::mount
