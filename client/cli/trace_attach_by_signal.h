/// kintsugi trace attach pid:NUMBER --signal: for a process of this host that answers no calls.
#pragma once

#include "client/cli/trace_attach.h"

namespace kintsugi::cli {

/// No call is made, so neither the cluster nor the process has to answer. Only a process of ours that has a handler for the signal gets it,
/// of the same user, or of any one if root asks; others are left alone, with one line that says why.
Status attach_by_signal(Session& session, const AttachArguments& arguments);

}  // namespace kintsugi::cli
