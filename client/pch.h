/// Precompiled for the programs that are written against the client library.
#pragma once

#include "client/lib/blocking_client.h"
#include "common/proto/pch.h"
