/* LLVM's C interface, found when it is first needed: linking with it would cost every start of the
 * program the 20 ms that loading it takes. llvm->BuildAdd is LLVMBuildAdd. */
#ifndef SPIN_HPU_JIT_LLVM_H
#define SPIN_HPU_JIT_LLVM_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "hpu/jit_private.h"

#define LLVM_FUNCTIONS(X)                                                                          \
    X(AddFunction)                                                                                 \
    X(AddCase)                                                                                     \
    X(AddAttributeAtIndex)                                                                         \
    X(AddCallSiteAttribute)                                                                        \
    X(AppendBasicBlockInContext)                                                                   \
    X(BuildAdd)                                                                                    \
    X(BuildAlloca)                                                                                 \
    X(BuildAnd)                                                                                    \
    X(BuildAShr)                                                                                   \
    X(BuildAtomicRMW)                                                                              \
    X(BuildBitCast)                                                                                \
    X(BuildBr)                                                                                     \
    X(BuildCall2)                                                                                  \
    X(BuildCondBr)                                                                                 \
    X(BuildExtractValue)                                                                           \
    X(BuildFence)                                                                                  \
    X(BuildFreeze)                                                                                 \
    X(BuildGEP2)                                                                                   \
    X(BuildICmp)                                                                                   \
    X(BuildLoad2)                                                                                  \
    X(BuildLShr)                                                                                   \
    X(BuildMul)                                                                                    \
    X(BuildNot)                                                                                    \
    X(BuildOr)                                                                                     \
    X(BuildIsNotNull)                                                                              \
    X(BuildRet)                                                                                    \
    X(BuildSDiv)                                                                                   \
    X(BuildSelect)                                                                                 \
    X(BuildSExt)                                                                                   \
    X(BuildShl)                                                                                    \
    X(BuildSRem)                                                                                   \
    X(BuildStore)                                                                                  \
    X(BuildSub)                                                                                    \
    X(BuildSwitch)                                                                                 \
    X(BuildTrunc)                                                                                  \
    X(BuildUDiv)                                                                                   \
    X(BuildURem)                                                                                   \
    X(BuildXor)                                                                                    \
    X(BuildZExt)                                                                                   \
    X(ConstInt)                                                                                    \
    X(ConstIntGetZExtValue)                                                                        \
    X(ConstIntToPtr)                                                                               \
    X(ContextCreate)                                                                               \
    X(ContextDispose)                                                                              \
    X(CreateBuilderInContext)                                                                      \
    X(CreateEnumAttribute)                                                                         \
    X(CreateMemoryBufferWithMemoryRangeCopy)                                                       \
    X(CreatePassBuilderOptions)                                                                    \
    X(CreateTargetDataLayout)                                                                      \
    X(CreateTargetMachine)                                                                         \
    X(DisposeBuilder)                                                                              \
    X(ConsumeError)                                                                                \
    X(DisposeMemoryBuffer)                                                                         \
    X(DisposeMessage)                                                                              \
    X(DisposeModule)                                                                               \
    X(DisposePassBuilderOptions)                                                                   \
    X(DisposeTargetData)                                                                           \
    X(DisposeTargetMachine)                                                                        \
    X(FunctionType)                                                                                \
    X(GetBasicBlockTerminator)                                                                     \
    X(GetBufferSize)                                                                               \
    X(GetBufferStart)                                                                              \
    X(GetCondition)                                                                                \
    X(GetEnumAttributeKindForName)                                                                 \
    X(GetFirstBasicBlock)                                                                          \
    X(GetFirstFunction)                                                                            \
    X(GetFirstInstruction)                                                                         \
    X(GetHostCPUFeatures)                                                                          \
    X(GetHostCPUName)                                                                              \
    X(GetInlineAsm)                                                                                \
    X(GetInsertBlock)                                                                              \
    X(GetInstructionParent)                                                                        \
    X(GetIntrinsicDeclaration)                                                                     \
    X(GetDefaultTargetTriple)                                                                      \
    X(GetMDKindIDInContext)                                                                        \
    X(GetMetadata)                                                                                 \
    X(GetNamedFunction)                                                                            \
    X(GetNextBasicBlock)                                                                           \
    X(GetNextInstruction)                                                                          \
    X(GetNextFunction)                                                                             \
    X(GetNumOperands)                                                                              \
    X(GetOperand)                                                                                  \
    X(GetParam)                                                                                    \
    X(GetSuccessor)                                                                                \
    X(GetTargetFromTriple)                                                                         \
    X(GetTypeKind)                                                                                 \
    X(InitializeX86AsmParser)                                                                      \
    X(InitializeX86AsmPrinter)                                                                     \
    X(InitializeX86Target)                                                                         \
    X(InitializeX86TargetInfo)                                                                     \
    X(InitializeX86TargetMC)                                                                       \
    X(InitializeAArch64AsmParser)                                                                  \
    X(InitializeAArch64AsmPrinter)                                                                 \
    X(InitializeAArch64Target)                                                                     \
    X(InitializeAArch64TargetInfo)                                                                 \
    X(InitializeAArch64TargetMC)                                                                   \
    X(InsertBasicBlockInContext)                                                                   \
    X(InsertIntoBuilder)                                                                           \
    X(InstructionClone)                                                                            \
    X(InstructionEraseFromParent)                                                                  \
    X(IntTypeInContext)                                                                            \
    X(IntrinsicGetType)                                                                            \
    X(IsAArgument)                                                                                 \
    X(IsABitCastInst)                                                                              \
    X(IsABranchInst)                                                                               \
    X(IsAConstantInt)                                                                              \
    X(IsAGetElementPtrInst)                                                                        \
    X(IsALoadInst)                                                                                 \
    X(IsAStoreInst)                                                                                \
    X(IsAPHINode)                                                                                  \
    X(IsConditional)                                                                               \
    X(LookupIntrinsicID)                                                                           \
    X(MDNodeInContext)                                                                             \
    X(MDStringInContext)                                                                           \
    X(ModuleCreateWithNameInContext)                                                               \
    X(MoveBasicBlockBefore)                                                                        \
    X(OrcCreateLLJIT)                                                                              \
    X(OrcDisposeLLJIT)                                                                             \
    X(OrcLLJITAddObjectFile)                                                                       \
    X(OrcLLJITGetMainJITDylib)                                                                     \
    X(OrcLLJITLookup)                                                                              \
    X(ParseIRInContext)                                                                            \
    X(PointerType)                                                                                 \
    X(PositionBuilderAtEnd)                                                                        \
    X(PositionBuilderBefore)                                                                       \
    X(ReplaceAllUsesWith)                                                                          \
    X(RunPasses)                                                                                   \
    X(SetAlignment)                                                                                \
    X(SetOrdering)                                                                                 \
    X(SetMetadata)                                                                                 \
    X(SetModuleDataLayout)                                                                         \
    X(SetModuleInlineAsm2)                                                                         \
    X(SetOperand)                                                                                  \
    X(SetSuccessor)                                                                                \
    X(SetTarget)                                                                                   \
    X(StructTypeInContext)                                                                         \
    X(TargetMachineEmitToMemoryBuffer)                                                             \
    X(TypeOf)                                                                                      \
    X(VoidTypeInContext)                                                                           \
    X(VerifyModule)

struct jit_llvm {
#define ROW(name) __typeof__(LLVM##name) *name;
    LLVM_FUNCTIONS(ROW)
#undef ROW
};

/* Adds the region's function to the module; loops that it calls, if it is not
 * compiled well, to the other one. False when it has nothing worth compiling, or too much. */
bool jit_lift(const struct jit_llvm *llvm, LLVMContextRef context, LLVMModuleRef module,
              LLVMModuleRef loops, const char *triple, const char *name, struct jit_region *region);

#endif
