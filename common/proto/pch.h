/// Precompiled for every target that speaks to other daemons: the common headers and the messages. A unit that includes
/// meta.pb.h itself takes more than two seconds for it alone.
#pragma once

#include "common/base/pch.h"
#include "common/proto/chunk.pb.h"
#include "common/proto/coordination.pb.h"
#include "common/proto/meta.pb.h"
#include "common/proto/repair.pb.h"
#include "common/proto/types.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"
